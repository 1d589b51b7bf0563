"""What crosses the wire: operations, options, results, errors."""
