"""What the contract says: generated from its schemas, but for `json_text.py`."""
