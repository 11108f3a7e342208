"""A holder's account of what was spent: filters, reservations, and a file that shows tampering."""
