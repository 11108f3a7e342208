"""Order statistics of n people: the law of what is released, at a cost that n hardly changes."""
