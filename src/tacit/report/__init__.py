"""What a person sees: the demonstration and metrics."""
