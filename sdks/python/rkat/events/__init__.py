"""Events, from the wire to whoever reads them."""
