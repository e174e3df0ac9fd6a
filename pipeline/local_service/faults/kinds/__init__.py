"""The faults, each a class; every module here is imported by `pipeline.local_service.faults`."""
