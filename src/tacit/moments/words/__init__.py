"""Words of all documents first, then their pairs and triples at once."""
