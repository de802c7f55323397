// SPDX-License-Identifier: Apache-2.0
//
// The bytes of an HTTP/2 client that keeps the rules as far as an input lets
// it: calls of our methods with messages that they take, frames and noise.

#ifndef QGEMM_TESTS_END_TO_END_HTTP2_ATTACK_H_
#define QGEMM_TESTS_END_TO_END_HTTP2_ATTACK_H_

#include <cstdint>
#include <string>

#include "tests/support/fuzz_input.h"

namespace qgemm {

// The weights that its Gemms name, and their k.
inline constexpr char kAttackedLayer[] = "layer";
inline constexpr int64_t kAttackedLayerK = 64;

// One connection. Borrows the input.
class Http2Attack {
 public:
  explicit Http2Attack(FuzzInput* input) : input_(input) {}

  // The preface and the client's SETTINGS.
  std::string Start();
  // A call, more of one, another frame, or bytes of any kind.
  std::string Next();

 private:
  std::string Call();
  std::string MoreOfCall(uint32_t method);

  FuzzInput* const input_;
  uint32_t stream_ = -1;  // the latest
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_END_TO_END_HTTP2_ATTACK_H_
