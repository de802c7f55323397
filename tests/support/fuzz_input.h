// SPDX-License-Identifier: Apache-2.0
//
// Decisions of a fuzz target, read from the fuzzer's bytes.

#ifndef QGEMM_TESTS_SUPPORT_FUZZ_INPUT_H_
#define QGEMM_TESTS_SUPPORT_FUZZ_INPUT_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace qgemm {

// Takes decisions off the front of the bytes; zeros when they are used up.
// Borrows the bytes.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(data, size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_.front();
    rest_.remove_prefix(1);
    return byte;
  }

  // Uniform in [0, count), count up to 256.
  uint32_t Below(uint32_t count) { return Byte() % count; }

  // True once in `count`.
  bool OneIn(uint32_t count) { return Below(count) == count - 1; }

  // A count as clients and attackers send them: small, or at the end of a type.
  uint64_t Count() {
    const uint8_t kind = Byte();
    if (kind < 200) return kind % 130;
    const uint64_t end = uint64_t{1} << (kind % 64);
    return end + Byte() - 128;
  }

  // Up to `size` bytes; fewer if there are no more.
  std::string Bytes(size_t size) {
    const absl::Span<const uint8_t> taken =
        rest_.first(std::min(size, rest_.size()));
    rest_.remove_prefix(taken.size());
    return std::string(taken.begin(), taken.end());
  }

  template <typename Container>
  auto Element(const Container& container) {
    return container[Below(static_cast<uint32_t>(std::size(container)))];
  }

 private:
  absl::Span<const uint8_t> rest_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_FUZZ_INPUT_H_
