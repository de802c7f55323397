// SPDX-License-Identifier: Apache-2.0
//
// Output of results: aligned tables and byte counts for people, JSON for
// programs.

#ifndef QGEMM_CLI_OUTPUT_H_
#define QGEMM_CLI_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "qgemm/gemm.h"
#include "qgemm/program.h"
#include "qgemm/weights.h"

namespace qgemm::cli {

using OrderedJson = nlohmann::ordered_json;

// Columns padded to their widest cell; the first row is the head. Cells are
// escaped as PrintableText does: they may hold text of a hostile server.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// "name  value" lines, values aligned.
std::string FormatFields(
    const std::vector<std::pair<std::string, std::string>>& fields);

// "31.0 MiB", "512 B".
std::string FormatBytes(int64_t bytes);

// In ASCII; bytes that are not UTF-8 are replaced.
std::string FormatJson(const OrderedJson& json);

// Text of the server that may have several lines, each escaped.
std::string PrintableLines(absl::string_view text);

// To stdout, as it is.
void Print(const std::string& text);

// "a, b", "a, b and 900 more" of `name_count`; empty without a
// name.
std::string FormatNames(const std::vector<std::string>& names,
                        int64_t name_count);

// The first digits of an id, as lists show them.
std::string ShortId(const std::string& id);

// "80 us: queue 3, kernel 60".
std::string FormatTimings(const Timings& times);

OrderedJson ToJson(const WeightsInfo& weights);
OrderedJson ToJson(const ProgramInfo& program);
OrderedJson ToJson(const Timings& times);  // microseconds

// The fields as lines of FormatFields.
std::vector<std::pair<std::string, std::string>> FieldsOf(
    const WeightsInfo& weights);
std::vector<std::pair<std::string, std::string>> FieldsOf(
    const ProgramInfo& program);

}  // namespace qgemm::cli

#endif  // QGEMM_CLI_OUTPUT_H_
