"""Version of the package; its build and its reports read it here."""

VERSION = "0.1.0"
