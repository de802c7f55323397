// SPDX-License-Identifier: Apache-2.0
//
// SHA-256 over a stream of bytes, by OpenSSL.

#ifndef QGEMM_BASE_SHA256_H_
#define QGEMM_BASE_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace qgemm {

using Sha256Digest = std::array<uint8_t, 32>;

// Hashes bytes as they come. Not thread-safe; move-only.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void Update(absl::string_view bytes);

  // The digest of all bytes so far; the object is spent then.
  Sha256Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 lower-case hexadecimal digits.
std::string ToHex(const Sha256Digest& digest);

}  // namespace qgemm

#endif  // QGEMM_BASE_SHA256_H_
