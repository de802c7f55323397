// SPDX-License-Identifier: Apache-2.0
//
// The version that all programs of the project share.

#ifndef QGEMM_BASE_VERSION_H_
#define QGEMM_BASE_VERSION_H_

namespace qgemm {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace qgemm

#endif  // QGEMM_BASE_VERSION_H_
