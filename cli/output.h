// SPDX-License-Identifier: Apache-2.0
//
// How results are printed: aligned tables and byte counts for people, JSON
// for programs.

#ifndef QGEMM_CLIENT_CLI_OUTPUT_H_
#define QGEMM_CLIENT_CLI_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "qgemm/weights.h"

namespace qgemm {

using OrderedJson = nlohmann::ordered_json;

// Columns padded to their widest cell; the first row is the head.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);

// "name  value" lines, values aligned.
std::string FormatFields(
    const std::vector<std::pair<std::string, std::string>>& fields);

// "31.0 MiB", "512 B".
std::string FormatBytes(int64_t bytes);

// Bytes that are no UTF-8 are replaced.
std::string FormatJson(const OrderedJson& json);

// To stdout.
void Print(const std::string& text);

OrderedJson ToJson(const WeightsInfo& weights);

// One line a field of the description.
std::vector<std::pair<std::string, std::string>> FieldsOf(
    const WeightsInfo& weights);

}  // namespace qgemm

#endif  // QGEMM_CLIENT_CLI_OUTPUT_H_
