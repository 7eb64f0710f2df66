#pragma once
/// Which pictures may stand in a page as they are.

#include <string_view>

namespace zerolock {

/// True if `svg` is one element <svg> that holds nothing but the elements and attributes that this project's
/// own pictures have, each closed where it was opened. Such a picture runs nothing and fetches nothing when
/// it is shown, whoever wrote it.
bool is_plain_picture(std::string_view svg);

}  // namespace zerolock
