// SPDX-License-Identifier: Apache-2.0
//
// One oracle for several values of m.

#ifndef QGEMM_TESTS_KERNELS_CUDA_ORACLE_ROWS_H_
#define QGEMM_TESTS_KERNELS_CUDA_ORACLE_ROWS_H_

#include <cstdint>

#include "kernels/matrix/fp64_oracle.h"

namespace qgemm::cuda {

// The product of the first rows alone.
inline OracleProduct FirstRows(OracleProduct oracle, int64_t rows) {
  const int64_t elements = rows * static_cast<int64_t>(oracle.columns.size());
  oracle.rows = rows;
  oracle.values.resize(elements);
  oracle.magnitudes.resize(elements);
  return oracle;
}

}  // namespace qgemm::cuda

#endif  // QGEMM_TESTS_KERNELS_CUDA_ORACLE_ROWS_H_
