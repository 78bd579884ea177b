"""One module a group of rules; each says what it watches as data."""
