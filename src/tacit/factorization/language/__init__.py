"""How relations, entities and couplings are stated."""
