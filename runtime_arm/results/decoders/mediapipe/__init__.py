"""The families of networks that MediaPipe ships: faces, hands, bodies."""
