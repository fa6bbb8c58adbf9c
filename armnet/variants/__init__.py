"""Two variants of a model side by side: what each costs, how right it is, and where their numbers part."""
