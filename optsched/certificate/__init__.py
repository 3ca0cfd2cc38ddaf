"""Certificates: lower bounds on the peak of every order, written for the independent checker."""

from __future__ import annotations

from optsched.certificate.write import Written, certify_peak

__all__ = ["Written", "certify_peak"]
