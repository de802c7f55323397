// SPDX-License-Identifier: Apache-2.0
//
// Random activations as bytes.

#ifndef QGEMM_TESTS_SUPPORT_RANDOM_MATRIX_H_
#define QGEMM_TESTS_SUPPORT_RANDOM_MATRIX_H_

#include <cstdint>
#include <vector>

#include "kernels/matrix/types.h"
#include "tests/support/seeds.h"

namespace qgemm {

// [rows, columns] elements of `type`, row-major: roughly normal, each row of
// a size of its own.
inline std::vector<uint8_t> RandomMatrix(FloatType type, int64_t rows,
                                         int64_t columns,
                                         RandomGenerator* random) {
  std::vector<uint8_t> bytes(rows * columns * SizeOf(type));
  uint8_t* out = bytes.data();
  for (int64_t row = 0; row < rows; ++row) {
    const float size = 1.5f + RandomSigned(random);
    for (int64_t column = 0; column < columns; ++column) {
      const float sum =
          RandomSigned(random) + RandomSigned(random) + RandomSigned(random);
      StoreFloat(type, size * sum, out);
      out += SizeOf(type);
    }
  }
  return bytes;
}

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_RANDOM_MATRIX_H_
