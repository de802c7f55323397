// SPDX-License-Identifier: Apache-2.0

#include "server/access/access_table_reader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace qgemm {
namespace {

using strict_json::CheckKeys;
using strict_json::Illegal;
using strict_json::Json;
using strict_json::Missing;

// A client takes some hundred bytes.
constexpr size_t kMaxTextBytes = size_t{4} << 20;
constexpr size_t kMaxIdBytes = 64;
constexpr size_t kMaxNameBytes = 256;
// One in use and the next one.
constexpr int kMaxTokens = 2;

constexpr Right kRights[] = {Right::kCompute, Right::kLoad, Right::kAdmin,
                             Right::kDebug};

absl::StatusOr<std::string> TextOfField(const Json& value,
                                        const std::string& where,
                                        size_t max_bytes,
                                        absl::string_view legal) {
  if (!value.is_string()) return Illegal(where, value, legal);
  auto text = value.get<std::string>();
  if (text.size() > max_bytes) return Illegal(where, value, legal);
  return text;
}

// An integer from 0 to `most`.
absl::StatusOr<int64_t> Count(const Json& value, const std::string& where,
                              int64_t most) {
  const absl::optional<int64_t> count = strict_json::CountOf(value, most);
  if (count.has_value()) return *count;
  return Illegal(where, value, absl::StrCat("whole numbers from 0 to ", most));
}

// Characters of an id, which stands in labels of metrics and in the log.
bool IsOfId(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("._@:/-", absl::string_view(&c, 1));
}

absl::StatusOr<std::string> ReadId(const Json& entry,
                                   const std::string& where) {
  constexpr char kLegal[] = "1 to 64 letters, digits and any of . _ @ : / -";
  const auto id = entry.find("id");
  if (id == entry.end()) return Missing(where + ".id", kLegal);
  ASSIGN_OR_RETURN(std::string text,
                   TextOfField(*id, where + ".id", kMaxIdBytes, kLegal));
  if (text.empty() || !std::all_of(text.begin(), text.end(), IsOfId)) {
    return Illegal(where + ".id", *id, kLegal);
  }
  return text;
}

absl::StatusOr<Rights> ReadRights(const Json& entry, const std::string& where) {
  constexpr char kLegal[] =
      "a list of \"compute\", \"load\", \"admin\" and \"debug\"";
  const auto list = entry.find("rights");
  if (list == entry.end()) return Missing(where + ".rights", kLegal);
  if (!list->is_array()) return Illegal(where + ".rights", *list, kLegal);
  Rights rights;
  for (size_t i = 0; i < list->size(); ++i) {
    const Json& value = (*list)[i];
    const auto right = absl::c_find_if(
        kRights, [&value](Right each) { return value == NameOf(each); });
    if (right == std::end(kRights)) {
      return Illegal(absl::StrCat(where, ".rights[", i, "]"), value, kLegal);
    }
    rights.Add(*right);
  }
  return rights;
}

// The field is a list of prefixes of names; none if it is missing.
absl::StatusOr<std::vector<std::string>> ReadPrefixes(const Json& entry,
                                                      const char* field,
                                                      std::string where) {
  constexpr char kLegal[] = "a list of texts, each the beginning of names";
  absl::StrAppend(&where, ".", field);
  std::vector<std::string> prefixes;
  const auto list = entry.find(field);
  if (list == entry.end()) return prefixes;
  if (!list->is_array()) return Illegal(where, *list, kLegal);
  for (size_t i = 0; i < list->size(); ++i) {
    ASSIGN_OR_RETURN(std::string prefix,
                     TextOfField((*list)[i], absl::StrCat(where, "[", i, "]"),
                                 kMaxNameBytes, kLegal));
    prefixes.push_back(std::move(prefix));
  }
  return prefixes;
}

absl::StatusOr<Quota> ReadQuota(const Json& entry, std::string where) {
  Quota quota;
  const auto found = entry.find("quota");
  if (found == entry.end()) return quota;
  absl::StrAppend(&where, ".quota");
  if (!found->is_object()) return Illegal(where, *found, "an object");
  constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMostCalls = std::numeric_limits<int>::max();
  RETURN_IF_ERROR(CheckKeys(*found, where,
                            {"queued_rows", "queued_bytes", "weights_bytes",
                             "uploads", "streams", "connections"}));
  const auto read = [&](const char* field, int64_t most,
                        auto* value) -> absl::Status {
    const auto count = found->find(field);
    if (count == found->end()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const int64_t number,
                     Count(*count, absl::StrCat(where, ".", field), most));
    *value = static_cast<std::remove_pointer_t<decltype(value)>>(number);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read("queued_rows", kMostBytes, &quota.queued_rows));
  RETURN_IF_ERROR(read("queued_bytes", kMostBytes, &quota.queued_bytes));
  RETURN_IF_ERROR(read("weights_bytes", kMostBytes, &quota.weights_bytes));
  RETURN_IF_ERROR(read("uploads", kMostCalls, &quota.uploads));
  RETURN_IF_ERROR(read("streams", kMostCalls, &quota.streams));
  RETURN_IF_ERROR(read("connections", kMostCalls, &quota.connections));
  return quota;
}

absl::StatusOr<Sha256Digest> ParseDigest(const std::string& hex) {
  const bool is_hex = std::all_of(hex.begin(), hex.end(), [](unsigned char c) {
    return absl::ascii_isxdigit(c);
  });
  Sha256Digest digest;
  if (!is_hex || hex.size() != 2 * digest.size()) {
    return absl::InvalidArgumentError("no digest");
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

}  // namespace

uint64_t LeadingBytes(const Sha256Digest& digest) {
  uint64_t leading = 0;
  std::memcpy(&leading, digest.data(), sizeof(leading));
  return leading;
}

absl::string_view TextOf(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

absl::StatusOr<std::shared_ptr<const AccessTable>> AccessTableReader::Read(
    absl::string_view text) {
  ASSIGN_OR_RETURN(const Json root,
                   strict_json::ParseObject(
                       text, {"", kMaxTextBytes, "{\"clients\": [...]}"}));
  RETURN_IF_ERROR(CheckKeys(root, "the table", {"clients"}));
  const auto clients = root.find("clients");
  if (clients == root.end()) return Missing("clients", "a list of clients");
  if (!clients->is_array()) {
    return Illegal("clients", *clients, "a list of clients");
  }
  AccessTableReader reader;
  for (size_t i = 0; i < clients->size(); ++i) {
    RETURN_IF_ERROR(
        reader.AddClient((*clients)[i], absl::StrCat("clients[", i, "]")));
  }
  return std::shared_ptr<const AccessTable>(reader.table_);
}

absl::Status AccessTableReader::AddClient(const Json& entry,
                                          std::string where) {
  if (!entry.is_object()) return Illegal(where, entry, "an object");
  auto principal = std::make_shared<Principal>();
  ASSIGN_OR_RETURN(principal->client_id, ReadId(entry, where));
  if (!ids_.insert(principal->client_id).second) {
    return Illegal(where + ".id", principal->client_id,
                   "an id that no other client has");
  }
  absl::StrAppend(&where, " (\"", principal->client_id, "\")");
  const auto proxy = entry.find("proxy");
  if (proxy != entry.end() && !proxy->is_boolean()) {
    return Illegal(where + ".proxy", *proxy, "true or false");
  }
  const bool is_proxy = proxy != entry.end() && proxy->get<bool>();
  if (is_proxy) {
    RETURN_IF_ERROR(
        CheckKeys(entry, where + ", a proxy,", {"id", "match", "proxy"}));
  } else {
    RETURN_IF_ERROR(CheckKeys(
        entry, where,
        {"id", "match", "rights", "names", "read", "quota", "proxy"}));
    ASSIGN_OR_RETURN(principal->rights, ReadRights(entry, where));
    ASSIGN_OR_RETURN(principal->names, ReadPrefixes(entry, "names", where));
    ASSIGN_OR_RETURN(principal->read, ReadPrefixes(entry, "read", where));
    ASSIGN_OR_RETURN(principal->quota, ReadQuota(entry, where));
  }
  table_->clients_.push_back({std::move(principal), is_proxy});
  return AddMatches(entry, where);
}

absl::Status AccessTableReader::AddMatches(const Json& entry,
                                           const std::string& where) {
  constexpr char kLegal[] = "a list of at least one thing to match";
  tokens_of_client_ = 0;
  const auto matches = entry.find("match");
  if (matches == entry.end()) return Missing(where + ".match", kLegal);
  if (!matches->is_array() || matches->empty()) {
    return Illegal(where + ".match", *matches, kLegal);
  }
  for (size_t i = 0; i < matches->size(); ++i) {
    RETURN_IF_ERROR(
        AddMatch((*matches)[i], absl::StrCat(where, ".match[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status AccessTableReader::AddMatch(const Json& match,
                                         const std::string& where) {
  constexpr char kLegal[] =
      "an object of one of spiffe, san, cn, uid and token_sha256";
  if (!match.is_object() || match.size() != 1) {
    return Illegal(where, match, kLegal);
  }
  const std::string kind = match.begin().key();
  const Json& value = match.begin().value();
  const std::string field = absl::StrCat(where, ".", kind);
  if (kind == "uid") {
    // The highest number stands for no user.
    ASSIGN_OR_RETURN(const int64_t uid, Count(value, field, 0xfffffffe));
    return AddName(absl::StrCat("uid:", uid), field);
  }
  if (kind == "token_sha256") {
    ASSIGN_OR_RETURN(const std::string hex,
                     TextOfField(value, field, 64, "64 hexadecimal digits"));
    return AddToken(hex, field);
  }
  if (kind != "spiffe" && kind != "san" && kind != "cn") {
    return CheckKeys(match, where,
                     {"spiffe", "san", "cn", "uid", "token_sha256"});
  }
  const std::string legal = kind == "spiffe"
                                ? "spiffe://DOMAIN/PATH of up to 256 bytes"
                                : "1 to 256 bytes";
  ASSIGN_OR_RETURN(const std::string text,
                   TextOfField(value, field, kMaxNameBytes, legal));
  if (text.empty() ||
      (kind == "spiffe" && !absl::StartsWith(text, "spiffe://"))) {
    return Illegal(field, value, legal);
  }
  return AddName(absl::StrCat(kind, ":", text), field);
}

absl::Status AccessTableReader::AddName(const std::string& name,
                                        const std::string& where) {
  const auto [other, added] =
      table_->names_.try_emplace(name, table_->clients_.size() - 1);
  if (added) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(where, ": ", strict_json::Shown(Json(name)),
                   " is matched by the client \"",
                   table_->clients_[other->second].principal->client_id,
                   "\" already; one thing is matched once"));
}

absl::Status AccessTableReader::AddToken(const std::string& hex,
                                         const std::string& where) {
  const absl::StatusOr<Sha256Digest> digest = ParseDigest(hex);
  if (!digest.ok()) {
    return Illegal(where, hex, "the token's SHA-256 in 64 hexadecimal digits");
  }
  if (++tokens_of_client_ > kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is one token too many; a client has at most ",
                     kMaxTokens, ", the one in use and the next"));
  }
  if (const AccessClient* other = table_->FindToken(*digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " is a token of the client \"",
                     other->principal->client_id, "\" already"));
  }
  table_->tokens_[LeadingBytes(*digest)].push_back(
      {*digest, table_->clients_.size() - 1});
  return absl::OkStatus();
}

}  // namespace qgemm
