// SPDX-License-Identifier: Apache-2.0
//
// A libFuzzer target: bytes, and tables with their bytes changed, are read;
// what is taken is searched by what it holds, and no id comes twice.

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "server/access/access_table.h"
#include "tests/support/fuzz_input.h"

namespace qgemm {
namespace {

constexpr absl::string_view kTable = R"({"clients": [
  {"id": "a", "match": [{"spiffe": "spiffe://c/a"}, {"san": "a"}, {"uid": 10},
   {"token_sha256":
    "4c5dc9b7708905f77f5e5d16316b5dfb425e68cb326dcd55a860e90a7707031e"}],
   "rights": ["compute", "load"], "names": ["a/"], "read": [""],
   "quota": {"queued_rows": 4096, "streams": 16}},
  {"id": "p", "match": [{"cn": "p"}], "proxy": true}]})";

// The table with some of its bytes replaced, doubled or left out.
std::string Mutated(FuzzInput* input) {
  std::string text(kTable);
  for (uint32_t edits = input->Below(6); edits > 0; --edits) {
    const size_t at =
        (size_t{input->Byte()} * 256 + input->Byte()) % text.size();
    const size_t length = input->Below(40);
    if (input->OneIn(3)) {
      text.insert(at, text.substr(at, length));
    } else {
      text.replace(at, input->Below(8), input->Bytes(input->Below(8)));
    }
  }
  return text;
}

void Read(const std::string& text) {
  const auto table = AccessTable::Parse(text);
  if (!table.ok()) {
    CHECK(!table.status().message().empty());
    return;
  }
  for (const char* const name :
       {"spiffe:spiffe://c/a", "san:a", "uid:10", "cn:p"}) {
    const AccessClient* const client = (*table)->FindName(name);
    CHECK(client == nullptr || !client->principal->client_id.empty());
    CHECK(client == nullptr || !client->is_proxy ||
          client->principal->rights.empty());
  }
}

}  // namespace
}  // namespace qgemm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qgemm::FuzzInput input(data, size);
  if (input.OneIn(4)) {
    qgemm::Read(input.Bytes(size));
  } else {
    qgemm::Read(qgemm::Mutated(&input));
  }
  return 0;
}
