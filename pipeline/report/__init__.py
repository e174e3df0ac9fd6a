"""What people and programs read: the terminal, JSON and HTML, each from the same value.

    terminal.show_plan(console, plan, …)      rich tables on a Console that the command made
    machine.plan_object(plan, path)           the versioned object of `plan --json`
    machine.write_report(directory, plan)     report.json and report.html beside the plan

Text of an export is shown printable and cut; in reports that leave the terminal, values of properties are masked
and ids are not, since a row is found again by them.
"""
