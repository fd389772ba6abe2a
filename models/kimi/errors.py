"""The one exception that these exporters raise about their input; its text is meant for the user."""


class ExportError(Exception):
    """A configuration, checkpoint or option that cannot be exported. The message names the field, tensor or file."""
