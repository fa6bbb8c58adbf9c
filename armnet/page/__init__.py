"""The pages that commands write: ``--html`` of inspect, evaluate, quantize, teach and diff."""
