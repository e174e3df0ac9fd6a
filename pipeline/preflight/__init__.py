"""Is the target ready for an import? One function a check; none of them sends an event or changes anything.

address, capture_key        what can be told without asking anybody
reach, clock                the capture host, asked with a batch that holds no event
project, capture_key_project, paid_plan, dropped_events, functions      the management API, asked by a personal key
recent_events, size         the plan against the service's rules

What cannot be told is `unknown`, with the reason, and never taken for granted.
"""
