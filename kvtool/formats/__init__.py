"""The formats in which a result leaves kvtool, each a view of one `CheckResult`."""
