"""The laws that data may follow."""
