"""What may be said: guarantees, events, accountants, calibration and ledgers.

Numbers only; nothing here ever sees data.
"""
