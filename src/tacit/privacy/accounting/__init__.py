"""What events cost: accountants, and the exact formulas behind them."""
