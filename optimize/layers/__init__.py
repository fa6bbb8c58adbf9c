"""Views of an operator as what passes need: a linear layer, an affine function, a fused layer."""
