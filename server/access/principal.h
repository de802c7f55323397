// SPDX-License-Identifier: Apache-2.0
//
// Clients by the access table: what one may do, under which names, and how
// much of the server it may take. Values only; access_table.h reads them.

#ifndef QGEMM_SERVER_ACCESS_PRINCIPAL_H_
#define QGEMM_SERVER_ACCESS_PRINCIPAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace qgemm {

// Rights that a client has or lacks. kNone needs none: whoever connects has it.
enum class Right : uint8_t { kNone, kCompute, kLoad, kAdmin, kDebug };

// "compute", "load", "admin", "debug", as the table writes them; "none".
const char* NameOf(Right right);

// A set of rights. None implies another: an admin that computes has both.
class Rights {
 public:
  constexpr Rights() = default;
  constexpr explicit Rights(Right right) { Add(right); }

  // Always true for kNone.
  constexpr bool Has(Right right) const {
    return right == Right::kNone || (bits_ & BitOf(right)) != 0;
  }
  constexpr void Add(Right right) { bits_ |= BitOf(right); }
  // True if the sets have a right in common.
  constexpr bool HasAnyOf(Rights others) const {
    return (bits_ & others.bits_) != 0;
  }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  static constexpr uint8_t BitOf(Right right) {
    return right == Right::kNone
               ? 0
               : static_cast<uint8_t>(1u << static_cast<int>(right));
  }

  uint8_t bits_ = 0;
};

// Bounds of one client over all of its connections; 0: the server's own bounds
// alone.
struct Quota {
  int64_t queued_rows = 0;
  int64_t queued_bytes = 0;
  int64_t weights_bytes = 0;
  int uploads = 0;
  int streams = 0;
  int connections = 0;
};

// A client of the access table.
struct Principal {
  // The unit of fairness, quotas and ownership.
  std::string client_id;
  Rights rights;
  // Prefixes of the names that it may bind, use, list and unload; "" is a
  // prefix of every name.
  std::vector<std::string> names;
  // Further prefixes, of names that it may use and list.
  std::vector<std::string> read;
  Quota quota;
};

// True if the client may bind the name, and unload it where it owns it. A null
// principal, of a server without an access table, may do everything.
bool MayBind(const Principal* principal, absl::string_view name);

// True if the client may use and list the name. Null as above.
bool MayRead(const Principal* principal, absl::string_view name);

}  // namespace qgemm

#endif  // QGEMM_SERVER_ACCESS_PRINCIPAL_H_
