"""Tests against real servers; the model is `offline`."""
