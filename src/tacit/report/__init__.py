"""What a person sees: the release bundle."""
