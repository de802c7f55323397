# SPDX-License-Identifier: Apache-2.0
"""The messages and stubs of proto/qgemm/v1, made when the wheel is built."""
