# SPDX-License-Identifier: Apache-2.0
"""Functions with the signatures of other libraries."""
