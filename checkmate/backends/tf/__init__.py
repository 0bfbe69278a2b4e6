"""Hold everything that imports TensorFlow and Keras; nothing else does.

Importing this package raises an error with releases that it does not work with. The command line, the window,
Python and the measuring processes all reach TensorFlow through here, so none of them can skip the check."""

from checkmate.machine.supported import require_supported

require_supported()
