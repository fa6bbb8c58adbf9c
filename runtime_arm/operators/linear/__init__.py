"""Matrix products, fully connected layers, Einsum."""
