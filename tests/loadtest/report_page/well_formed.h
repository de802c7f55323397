// SPDX-License-Identifier: Apache-2.0
//
// What every page and picture must be: tags closed in the order in which they
// were opened, and numbers that are numbers.

#ifndef QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_WELL_FORMED_H_
#define QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_WELL_FORMED_H_

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace qgemm {

// Of HTML or SVG as the page's writers make it: attributes in double quotes,
// every < of text escaped.
testing::AssertionResult IsWellFormed(absl::string_view markup);

// No word is "nan", "inf" or "infinity", in any case.
testing::AssertionResult HasOnlyNumbers(absl::string_view markup);

}  // namespace qgemm

#endif  // QGEMM_TESTS_CLIENT_LOADTEST_REPORT_PAGE_WELL_FORMED_H_
