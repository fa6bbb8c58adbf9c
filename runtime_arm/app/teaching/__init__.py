"""Learning new classes where the network runs, with the runtime alone."""
