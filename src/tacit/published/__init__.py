"""Methods as their papers state them, for reproduction only."""
