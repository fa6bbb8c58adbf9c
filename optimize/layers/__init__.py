"""What passes see in an operator: a linear layer, an affine function of channels, a fused layer."""
