// SPDX-License-Identifier: Apache-2.0
//
// A proxy between a client and a real server that damages answers: it forwards
// every method byte for byte and flips a bit in some answers of one.

#ifndef QGEMM_TESTS_SUPPORT_TAMPERING_PROXY_H_
#define QGEMM_TESTS_SUPPORT_TAMPERING_PROXY_H_

#include <cstdint>
#include <memory>
#include <string>

namespace qgemm {

struct TamperingOptions {
  // Method whose answers are damaged, in the order in which the server sends
  // them.
  std::string method = "/qgemm.v1.Qgemm/Gemm";
  // One of this many answers is damaged; 0: none.
  int64_t every = 0;
  uint64_t seed = 0;  // of which one that is
  // Bits to flip in the message's last byte: of a Gemm's answer the last
  // byte of its last element, that of the sign and exponent. 0 is the lowest.
  int bit = 6;
};

// Serves on a Unix socket of its own from its making to its end. Thread-safe
// but for Die.
class TamperingProxy {
 public:
  // Forwards to `server`, an address that gRPC knows ("127.0.0.1:50051",
  // "unix:path").
  explicit TamperingProxy(const std::string& server,
                          const TamperingOptions& options = {});
  ~TamperingProxy();

  // "unix:path".
  const std::string& address() const;

  // Answers of the method that were forwarded, and those of them that were
  // damaged.
  int64_t answers() const;
  int64_t flipped() const;

  // Stops serving at once: calls in progress fail, connections close, further
  // ones are refused. For one thread, once or more often.
  void Die();

 private:
  class Service;
  const std::unique_ptr<Service> service_;
};

}  // namespace qgemm

#endif  // QGEMM_TESTS_SUPPORT_TAMPERING_PROXY_H_
