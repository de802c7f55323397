// SPDX-License-Identifier: Apache-2.0
//
// The table's searches. Its reader is in access_table_reader.cc.

#include "server/access/access_table.h"

#include "base/secret_compare.h"
#include "server/access/access_table_reader.h"

namespace qgemm {

absl::StatusOr<std::shared_ptr<const AccessTable>> AccessTable::Parse(
    absl::string_view text) {
  return AccessTableReader::Read(text);
}

const AccessClient* AccessTable::FindName(const std::string& name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : &clients_[found->second];
}

// A client chooses its token, not the digest's first bytes, so that the time to
// find those tells nothing; the rest is compared in constant time.
const AccessClient* AccessTable::FindToken(const Sha256Digest& digest) const {
  const auto found = tokens_.find(LeadingBytes(digest));
  if (found == tokens_.end()) return nullptr;
  for (const Token& token : found->second) {
    if (SecretsEqual(TextOf(token.digest), TextOf(digest))) {
      return &clients_[token.client];
    }
  }
  return nullptr;
}

}  // namespace qgemm
