"""Certificates: lower bounds on the peak of every order, written for the independent checker."""

from __future__ import annotations

from optsched.certificate.effort import CertificateEffort
from optsched.certificate.write import Written, certify_module, certify_peak

__all__ = ["CertificateEffort", "Written", "certify_module", "certify_peak"]
