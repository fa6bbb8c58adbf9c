"""Operators that move or reshape elements without computing, and a few of Caffe's that pick them."""
