"""The only package that imports TensorFlow and Keras; with releases it does not work with, importing it raises.

Every way to TensorFlow leads through here (command line, window, Python, measuring processes), so none can forget to ask.
"""

from checkmate.machine.supported import require_supported

require_supported()
