"""A joint computation as rounds of messages; knows nothing of the field or the transport."""
