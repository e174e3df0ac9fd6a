"""The sections of a plan's report; every module here is imported automatically (see `pipeline.report.registry`)."""
