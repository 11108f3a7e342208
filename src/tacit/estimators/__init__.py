"""Estimators: the only place where what the data says and what may be said meet."""
