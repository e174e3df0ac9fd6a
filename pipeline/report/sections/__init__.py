"""The sections of a plan's report; every module here is found by itself (see `pipeline.report.registry`)."""
