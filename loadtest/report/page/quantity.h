// SPDX-License-Identifier: Apache-2.0
//
// Numbers as the page writes them: grouped digits, three of them significant,
// units chosen by size. A value that is not finite is written as a dash.

#ifndef QGEMM_LOADTEST_REPORT_PAGE_QUANTITY_H_
#define QGEMM_LOADTEST_REPORT_PAGE_QUANTITY_H_

#include <cstdint>
#include <string>

namespace qgemm {

// What the values of an axis are.
enum class Quantity : uint8_t { kCount, kPercent, kNanoseconds, kSeconds };

std::string DurationText(double ns);    // "412 µs", "1.24 ms"
std::string CountText(double value);    // "12,345", "3.14"
std::string BytesText(double bytes);    // "28.0 MiB"
std::string PercentText(double share);  // of 1: "12.5 %"

// For columns of one unit: "1,240.3".
std::string MicrosecondsText(double ns);

// A round value on an axis that reaches to `largest`, which decides the unit
// of kNanoseconds: "0.5 ms", "20 %", "1,000", "250k".
std::string TickText(double value, Quantity quantity, double largest);

}  // namespace qgemm

#endif  // QGEMM_LOADTEST_REPORT_PAGE_QUANTITY_H_
